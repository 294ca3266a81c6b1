#!/bin/bash
# Llama 3 70B on 64 GPUs with Megatron-LM, as a user would start it. topoopt llm check reads it.
GPUS_PER_NODE=8
NUM_NODES=${NUM_NODES:-8}

MODEL_ARGS=(
    --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --swiglu
    --num-attention-heads 64 --group-query-attention --num-query-groups 8
    --seq-length 8192 --position-embedding-type rope --normalization RMSNorm
    --padded-vocab-size 128256 --untie-embeddings-and-output-weights --disable-bias-linear
)
PARALLEL_ARGS=(
    --tensor-model-parallel-size 8 --sequence-parallel
    --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 5
    --micro-batch-size 1 --global-batch-size 128
    --use-distributed-optimizer --overlap-grad-reduce
)
OTHER_ARGS="--bf16 --lr 1.5e-4 --train-iters 1000 --tokenizer-type HuggingFaceTokenizer"

torchrun --nproc-per-node $GPUS_PER_NODE --nnodes $NUM_NODES pretrain_gpt.py \
    "${MODEL_ARGS[@]}" "${PARALLEL_ARGS[@]}" $OTHER_ARGS
