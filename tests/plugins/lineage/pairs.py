"""Claims that were rejected, each with a later text: the same claim in other words, or another claim.

Written for this test. Pairs at even places were at hand while the thresholds were chosen; those at odd places were not.
"""

from __future__ import annotations

__all__ = ["DIFFERENT", "SAME"]

# (kind, the rejected text, the same claim again)
SAME: list[tuple[str, str, str]] = [
    (
        "reorder",
        "Warm-up of 500 steps lowers val_loss by 0.1 over 3 seeds.",
        "Over 3 seeds, val_loss is lowered by 0.1 with a warm-up of 500 steps.",
    ),
    (
        "reorder",
        "Batch size 64 runs out of memory on the 24 GiB card.",
        "On the 24 GiB card we run out of memory at batch size 64.",
    ),
    (
        "reorder",
        "Label smoothing of 0.1 improves calibration on the rare classes.",
        "On the rare classes, calibration improves with label smoothing of 0.1.",
    ),
    (
        "reorder",
        "Shuffling the data once per epoch is enough for stable training.",
        "For stable training it is enough that the data is shuffled once per epoch.",
    ),
    (
        "reorder",
        "Mixed precision training doubles throughput on the H100 without hurting accuracy.",
        "On the H100, throughput doubles with mixed precision training, without hurting accuracy.",
    ),
    (
        "reorder",
        "Gradient clipping at 1.0 prevents divergence in the first 200 steps.",
        "In the first 200 steps, divergence is prevented by gradient clipping at 1.0.",
    ),
    (
        "reorder",
        "The validation split leaks users from the training split.",
        "Users from the training split leak into the validation split.",
    ),
    (
        "reorder",
        "Dropout of 0.3 in the attention layers hurts small models more than large ones.",
        "In the attention layers, dropout of 0.3 hurts small models more than large ones.",
    ),
    (
        "reorder",
        "Cosine decay with a floor of 1e-5 beats linear decay on all three corpora.",
        "On all three corpora cosine decay with a floor of 1e-5 beats linear decay.",
    ),
    (
        "reorder",
        "Checkpoints averaged over the last five epochs generalise better than the best single one.",
        "Averaged over the last five epochs, checkpoints generalise better than the best single one.",
    ),
    (
        "reorder",
        "Tokenizer vocabulary of 32k is large enough for the code corpus.",
        "For the code corpus a tokenizer vocabulary of 32k is large enough.",
    ),
    (
        "reorder",
        "Freezing the embeddings after epoch 2 saves memory and costs no accuracy.",
        "After epoch 2, freezing the embeddings costs no accuracy and saves memory.",
    ),
    (
        "reorder",
        "# Seeds\n\nTwo seeds are enough for learning rate sweeps. The spread between seeds is below 0.01.",
        "The spread between seeds is below 0.01.\nTwo seeds are enough for learning rate sweeps.",
    ),
    (
        "reorder",
        "Sorting sequences by length speeds up an epoch by 30 percent on this data set.",
        "An epoch on this data set is sped up by 30 percent by sorting sequences by length.",
    ),
    (
        "reorder",
        "The baseline without augmentation overfits after 12 epochs on the small split.",
        "On the small split, after 12 epochs, the baseline without augmentation overfits.",
    ),
    (
        "reorder",
        "Weight decay of 0.05 must be paired with a longer schedule to pay off.",
        "To pay off, weight decay of 0.05 must be paired with a longer schedule.",
    ),
    (
        "reorder",
        "Pruning half of the heads leaves perplexity unchanged on the held-out set.",
        "Perplexity on the held-out set is left unchanged by pruning half of the heads.",
    ),
    (
        "reorder",
        "Loss spikes come from three corrupt shards in the web crawl.",
        "Three corrupt shards in the web crawl are where the loss spikes come from.",
    ),
    (
        "reorder",
        "EMA of the weights with decay 0.999 makes evaluation less noisy.",
        "Evaluation is made less noisy by an EMA of the weights with decay 0.999.",
    ),
    (
        "reorder",
        "A larger context window never helps retrieval questions in this benchmark.",
        "In this benchmark, retrieval questions are never helped by a larger context window.",
    ),
    (
        "edit",
        "Warm-up of 500 steps lowers val_loss by 0.1 over 3 seeds.",
        "A warmup of 500 steps lowers the val loss by 0.1, over 3 seeds!",
    ),
    (
        "edit",
        "Adam with beta2 of 0.95 is more stable than the default on long sequences.",
        "Note: Adam with beta2 of 0.95 is clearly more stable than the default on long sequences.",
    ),
    (
        "edit",
        "Random crops improve top-1 accuracy by two points on the flowers data.",
        "Random cropping improves top-1 accuracy by 2 points on the flowers data.",
    ),
    (
        "edit",
        "Batch size 64 runs out of memory on the 24 GiB card.",
        "Batch size of 64 ran out of memory on our 24 GiB cards.",
    ),
    (
        "edit",
        "The learning rate of 3e-4 is the best one for every depth that we tried.",
        "The learning rate 0.0003 is the best for every depth we have tried.",
    ),
    (
        "edit",
        "Gradient checkpointing makes each step 20 percent slower and halves memory.",
        "Gradient checkpointing makes every single step about 20 % slower, and it halves memory.",
    ),
    (
        "edit",
        "Data loading is the bottleneck with fewer than eight workers.",
        "Data loading is really the bottleneck here with fewer than 8 workers.",
    ),
    (
        "edit",
        "Residual scaling of 0.5 lets a network of 100 layers train without normalisation.",
        "Residual scaling of 0.5 lets networks of 100 layers train without any normalization.",
    ),
    (
        "edit",
        "Early stopping on val_acc picks checkpoints that are worse on the test set.",
        "Early stopping on val_acc picks the checkpoints that are worse on the test sets.",
    ),
    (
        "edit",
        "The teacher's logits need a temperature of 4 for the student to learn from them.",
        "The teachers logits need a temperature of 4.0 for a student to learn from them.",
    ),
    (
        "edit",
        "Curriculum by sentence length speeds up the first epoch and changes nothing later.",
        "A curriculum by sentence length speeds up the first epoch but it changes nothing later on.",
    ),
    (
        "edit",
        "Padding to multiples of 64 raises throughput by a quarter on the A100.",
        "Padding to multiples of 64 raises the throughput by about a quarter on an A100.",
    ),
    (
        "edit",
        "Contrastive pretraining needs at least 4096 negatives per batch to help.",
        "Contrastive pre-training needs at least 4,096 negatives per batch to help.",
    ),
    (
        "edit",
        "Dropping the layer norm bias changes no metric at all in the ablation.",
        "In short: dropping the layer-norm bias changes no metric in the ablations.",
    ),
    (
        "edit",
        "Beam search of width 5 repeats phrases more often than sampling at 0.8.",
        "Beam search of width 5 repeats the phrases more often than sampling does at 0.8.",
    ),
    (
        "edit",
        "The regression head diverges when targets are not standardised.",
        "The regression head diverges when the targets are not standardized.",
    ),
    (
        "edit",
        "Synthetic examples hurt the parser once they exceed a third of the mix.",
        "Synthetic examples do hurt the parser, once they exceed one third of the mix.",
    ),
    (
        "edit",
        "Quantising the keys to int8 costs less than 0.2 points on every task.",
        "Quantizing the keys to int8 costs less than 0.2 points, on each task.",
    ),
    (
        "edit",
        "Replay of 5 percent old data prevents forgetting in the second stage.",
        "A replay of 5% old data prevents forgetting in the second stage, as we saw.",
    ),
    (
        "edit",
        "Router collapse in the mixture starts when the balance loss is below 0.01.",
        "Router collapse in the mixture starts whenever the balance loss is below 0.01.",
    ),
    (
        "synonym",
        "Warm-up of 500 steps lowers val_loss by 0.1 over 3 seeds.",
        "Ramping the learning rate for 500 iterations reduces validation loss by 0.1 across 3 seeds.",
    ),
    (
        "synonym",
        "Batch size 64 runs out of memory on the 24 GiB card.",
        "With 64 samples per batch the 24 GiB GPU goes OOM.",
    ),
    (
        "synonym",
        "Dropout of 0.3 in the attention layers hurts small models more than large ones.",
        "Attention dropout at 0.3 damages little networks more strongly than big ones.",
    ),
    (
        "synonym",
        "Mixed precision training doubles throughput on the H100 without hurting accuracy.",
        "Half precision makes the H100 twice as fast, with no loss of accuracy.",
    ),
    (
        "synonym",
        "Gradient clipping at 1.0 prevents divergence in the first 200 steps.",
        "Capping gradients at 1.0 stops the run from blowing up during the initial 200 iterations.",
    ),
    (
        "synonym",
        "Random crops improve top-1 accuracy by two points on the flowers data.",
        "Random crops raise top-1 acc by 2 points on the flowers dataset.",
    ),
    (
        "synonym",
        "The learning rate of 3e-4 is the best one for every depth that we tried.",
        "An lr of 3e-4 is optimal for each depth that was tested.",
    ),
    (
        "synonym",
        "Data loading is the bottleneck with fewer than eight workers.",
        "The input pipeline limits speed when there are less than 8 workers.",
    ),
    (
        "synonym",
        "Early stopping on val_acc picks checkpoints that are worse on the test set.",
        "Selecting checkpoints by early stopping on validation accuracy yields inferior test results.",
    ),
    (
        "synonym",
        "Freezing the embeddings after epoch 2 saves memory and costs no accuracy.",
        "Locking the embeddings after epoch 2 reduces memory and accuracy does not suffer.",
    ),
    (
        "synonym",
        "Weight decay of 0.05 must be paired with a longer schedule to pay off.",
        "Weight decay of 0.05 has to be combined with a longer schedule to be useful.",
    ),
    (
        "synonym",
        "Padding to multiples of 64 raises throughput by a quarter on the A100.",
        "Padding to multiples of 64 increases throughput by 25 percent on the A100.",
    ),
    (
        "synonym",
        "The regression head diverges when targets are not standardised.",
        "The regression head explodes if targets are not normalised.",
    ),
    (
        "synonym",
        "Synthetic examples hurt the parser once they exceed a third of the mix.",
        "Generated samples degrade the parser as soon as they make up more than a third of the mixture.",
    ),
    (
        "synonym",
        "Replay of 5 percent old data prevents forgetting in the second stage.",
        "Mixing in 5 percent of earlier data avoids forgetting during phase two.",
    ),
    (
        "synonym",
        "Loss spikes come from three corrupt shards in the web crawl.",
        "Three broken shards in the web crawl cause the loss spikes.",
    ),
    (
        "synonym",
        "Sorting sequences by length speeds up an epoch by 30 percent on this data set.",
        "Ordering sequences by length makes an epoch 30 percent faster on this dataset.",
    ),
    (
        "synonym",
        "Cosine decay with a floor of 1e-5 beats linear decay on all three corpora.",
        "Cosine decay with a minimum of 1e-5 outperforms linear decay on all 3 corpora.",
    ),
    (
        "synonym",
        "Pruning half of the heads leaves perplexity unchanged on the held-out set.",
        "Removing half of the heads does not alter perplexity on the held-out set.",
    ),
    (
        "synonym",
        "EMA of the weights with decay 0.999 makes evaluation less noisy.",
        "Averaging parameters exponentially (decay 0.999) gives smoother evaluation.",
    ),
    (
        "synonym",
        "Shuffling the data once per epoch is enough for stable training.",
        "Shuffling the dataset once per epoch suffices for stable training.",
    ),
    (
        "synonym",
        "Gradient checkpointing makes each step 20 percent slower and halves memory.",
        "Gradient checkpointing slows every iteration by 20 percent and cuts memory in half.",
    ),
]

# (kind, the rejected text, another claim)
DIFFERENT: list[tuple[str, str, str]] = [
    (
        "number",
        "A learning rate of 0.1 diverges on the small transformer.",
        "A learning rate of 0.01 converges on the small transformer.",
    ),
    (
        "number",
        "A learning rate of 0.1 diverges on the small transformer.",
        "A learning rate of 0.3 diverges on the small transformer.",
    ),
    (
        "number",
        "Warm-up of 500 steps lowers val_loss by 0.1 over 3 seeds.",
        "Warm-up of 2000 steps lowers val_loss by 0.1 over 3 seeds.",
    ),
    (
        "number",
        "Batch size 64 runs out of memory on the 24 GiB card.",
        "Batch size 96 runs out of memory on the 24 GiB card.",
    ),
    (
        "number",
        "Batch size 64 runs out of memory on the 24 GiB card.",
        "Batch size 64 runs out of memory on the 16 GiB card.",
    ),
    (
        "number",
        "Dropout of 0.3 in the attention layers hurts small models.",
        "Dropout of 0.1 in the attention layers hurts small models.",
    ),
    (
        "number",
        "Gradient clipping at 1.0 prevents divergence in the first 200 steps.",
        "Gradient clipping at 5.0 prevents divergence in the first 200 steps.",
    ),
    (
        "number",
        "The claim h3 was refuted: depth does not matter for the encoder.",
        "The claim h4 was refuted: depth does not matter for the encoder.",
    ),
    (
        "number",
        "Tokenizer vocabulary of 32k is large enough for the code corpus.",
        "Tokenizer vocabulary of 64k is large enough for the code corpus.",
    ),
    (
        "number",
        "Random crops improve top-1 accuracy by two points on the flowers data.",
        "Random crops improve top-1 accuracy by four points on the flowers data.",
    ),
    (
        "number",
        "EMA of the weights with decay 0.999 makes evaluation less noisy.",
        "EMA of the weights with decay 0.99 makes evaluation less noisy.",
    ),
    (
        "number",
        "Freezing the embeddings after epoch 2 costs no accuracy on the news data.",
        "Freezing the embeddings after epoch 9 costs no accuracy on the news data.",
    ),
    (
        "number",
        "Quantising the keys to int8 costs less than 0.2 points on every task.",
        "Quantising the keys to int4 costs less than 0.2 points on every task.",
    ),
    (
        "number",
        "Replay of 5 percent old data prevents forgetting in the second stage.",
        "Replay of 20 percent old data prevents forgetting in the second stage.",
    ),
    (
        "number",
        "Padding to multiples of 64 raises throughput by a quarter on the A100.",
        "Padding to multiples of 8 raises throughput by a quarter on the A100.",
    ),
    (
        "verdict",
        "Warm-up of 500 steps lowers val_loss by 0.1 over 3 seeds.",
        "Warm-up of 500 steps raises val_loss by 0.1 over 3 seeds.",
    ),
    (
        "verdict",
        "Label smoothing of 0.1 improves calibration on the rare classes.",
        "Label smoothing of 0.1 does not improve calibration on the rare classes.",
    ),
    (
        "verdict",
        "Mixed precision training doubles throughput on the H100 without hurting accuracy.",
        "Mixed precision training doubles throughput on the H100 but hurts accuracy.",
    ),
    (
        "verdict",
        "Shuffling the data once per epoch is enough for stable training.",
        "Shuffling the data once per epoch is not enough for stable training.",
    ),
    (
        "verdict",
        "Synthetic examples hurt the parser once they exceed a third of the mix.",
        "Synthetic examples help the parser once they exceed a third of the mix.",
    ),
    (
        "verdict",
        "The regression head diverges when targets are not standardised.",
        "The regression head diverges when targets are standardised.",
    ),
    (
        "verdict",
        "Pruning half of the heads leaves perplexity unchanged on the held-out set.",
        "Pruning half of the heads makes perplexity worse on the held-out set.",
    ),
    (
        "verdict",
        "A larger context window never helps retrieval questions in this benchmark.",
        "A larger context window always helps retrieval questions in this benchmark.",
    ),
    (
        "verdict",
        "Dropout of 0.3 in the attention layers hurts small models more than large ones.",
        "Dropout of 0.3 in the attention layers hurts large models more than small ones.",
    ),
    (
        "verdict",
        "Data loading is the bottleneck with fewer than eight workers.",
        "Data loading is not the bottleneck, even with fewer than eight workers.",
    ),
    (
        "verdict",
        "Cosine decay with a floor of 1e-5 beats linear decay on all three corpora.",
        "Linear decay beats cosine decay with a floor of 1e-5 on all three corpora.",
    ),
    (
        "verdict",
        "Gradient checkpointing makes each step 20 percent slower.",
        "Gradient checkpointing makes each step 20 percent faster.",
    ),
    (
        "verdict",
        "Weight decay of 0.05 must be paired with a longer schedule to pay off.",
        "Weight decay of 0.05 must be paired with a shorter schedule to pay off.",
    ),
    (
        "verdict",
        "Early stopping on val_acc picks checkpoints that are worse on the test set.",
        "Early stopping on val_acc picks checkpoints that are better on the test set.",
    ),
    (
        "verdict",
        "The validation split leaks users from the training split.",
        "No users leak from the training split into the validation split.",
    ),
    (
        "subject",
        "Adam with beta2 of 0.95 is more stable than the default on long sequences.",
        "Lion with beta2 of 0.95 is more stable than the default on long sequences.",
    ),
    (
        "subject",
        "Warm-up of 500 steps lowers val_loss by 0.1 over 3 seeds.",
        "Dropout for 500 steps lowers val_loss by 0.1 over 3 seeds.",
    ),
    (
        "subject",
        "Random crops improve top-1 accuracy by two points on the flowers data.",
        "Random flips improve top-1 accuracy by two points on the flowers data.",
    ),
    (
        "subject",
        "Label smoothing of 0.1 improves calibration on the rare classes.",
        "Mixup of 0.1 improves calibration on the rare classes.",
    ),
    (
        "subject",
        "Loss spikes come from three corrupt shards in the web crawl.",
        "Loss spikes come from three long documents in the web crawl.",
    ),
    (
        "subject",
        "Mixed precision training doubles throughput on the H100 without hurting accuracy.",
        "Tensor parallel training doubles throughput on the H100 without hurting accuracy.",
    ),
    (
        "subject",
        "Cosine decay with a floor of 1e-5 beats linear decay on all three corpora.",
        "Cosine decay with a floor of 1e-5 beats constant rates on all three corpora.",
    ),
    (
        "subject",
        "Freezing the embeddings after epoch 2 saves memory and costs no accuracy.",
        "Freezing the decoder after epoch 2 saves memory and costs no accuracy.",
    ),
    (
        "subject",
        "Beam search of width 5 repeats phrases more often than sampling at 0.8.",
        "Beam search of width 5 drops names more often than sampling at 0.8.",
    ),
    (
        "subject",
        "The regression head diverges when targets are not standardised.",
        "The classification head diverges when inputs are not standardised.",
    ),
    (
        "subject",
        "Curriculum by sentence length speeds up the first epoch and changes nothing later.",
        "Curriculum by word frequency speeds up the first epoch and changes nothing later.",
    ),
    (
        "subject",
        "The baseline without augmentation overfits after 12 epochs on the small split.",
        "The baseline without regularisation overfits after 12 epochs on the large split.",
    ),
    (
        "subject",
        "Pruning half of the heads leaves perplexity unchanged on the held-out set.",
        "Pruning half of the experts leaves latency unchanged on the held-out set.",
    ),
    (
        "subject",
        "Sorting sequences by length speeds up an epoch by 30 percent on this data set.",
        "Packing sequences by length speeds up an epoch by 30 percent on this data set.",
    ),
    (
        "subject",
        "Dropping the layer norm bias changes no metric at all in the ablation.",
        "Dropping the attention bias changes no metric at all in the ablation.",
    ),
    (
        "near",
        "Warm-up of 500 steps lowers val_loss by 0.1 over 3 seeds.",
        "The val_loss differs by 0.1 between seeds, so three seeds say little about a warm-up.",
    ),
    (
        "near",
        "Batch size 64 runs out of memory on the 24 GiB card.",
        "Memory on the 24 GiB card is mostly taken by optimiser states, not by the batch.",
    ),
    (
        "near",
        "Gradient clipping at 1.0 prevents divergence in the first 200 steps.",
        "Divergence in the first steps of r12 came from a bad initialisation of the head.",
    ),
    (
        "near",
        "EMA of the weights with decay 0.999 makes evaluation less noisy.",
        "Evaluation noise is dominated by the small test set: report intervals.",
    ),
    (
        "near",
        "Data loading is the bottleneck with fewer than eight workers.",
        "Eight workers exhaust the shared memory of the container; raise its limit.",
    ),
    (
        "near",
        "The validation split leaks users from the training split.",
        "Split the data by user, and check with a hash that no user is in both splits.",
    ),
    (
        "near",
        "Label smoothing of 0.1 improves calibration on the rare classes.",
        "Calibration on rare classes was measured with 15 bins of equal mass.",
    ),
    (
        "near",
        "The learning rate of 3e-4 is the best one for every depth that we tried.",
        "Sweep the learning rate anew for each depth, from 1e-5 to 1e-2.",
    ),
    (
        "near",
        "Two seeds are enough for learning rate sweeps.",
        "Five seeds are needed to rank optimisers by final accuracy.",
    ),
    (
        "near",
        "Contrastive pretraining needs at least 4096 negatives per batch to help.",
        "Contrastive pretraining was run on 8 cards with gradient caching for the negatives.",
    ),
    (
        "near",
        "Tokenizer vocabulary of 32k is large enough for the code corpus.",
        "The tokenizer splits indentation of the code corpus into single blanks.",
    ),
    (
        "near",
        "Residual scaling of 0.5 lets a network of 100 layers train without normalisation.",
        "Normalisation layers take 9 percent of the step in the network of 100 layers.",
    ),
    (
        "near",
        "Router collapse in the mixture starts when the balance loss is below 0.01.",
        "The router's balance loss is logged as aux_loss, at each 50th step.",
    ),
    (
        "near",
        "Early stopping on val_acc picks checkpoints that are worse on the test set.",
        "Checkpoints are kept by val_acc, the last three of each run, and pruned after a week.",
    ),
    (
        "near",
        "A larger context window never helps retrieval questions in this benchmark.",
        "The benchmark has 400 retrieval questions, of which 90 need more than one document.",
    ),
    (
        "near",
        "Synthetic examples hurt the parser once they exceed a third of the mix.",
        "Synthetic examples for the parser are made by the grammar in data/gen.py, seeded.",
    ),
    (
        "near",
        "Padding to multiples of 64 raises throughput by a quarter on the A100.",
        "Throughput on the A100 is measured after 50 steps, padding tokens not counted.",
    ),
]
